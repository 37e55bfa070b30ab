// A client of MCP that shows an app, by the SDK's own bridge: the app's frame may ask this page, and nobody else.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

const frame = document.querySelector("iframe");
const { query, theme } = document.body.dataset;
const read = async (uri) => (await fetch("/read?" + new URLSearchParams({ uri }))).json();

const bridge = new AppBridge(null, { name: "host", version: "1" }, { serverResources: {} }, { hostContext: { theme } });
bridge.onreadresource = async ({ uri }) => {
  const answer = await read(uri);
  if (answer.error) throw new Error(answer.error);
  return answer;
};
bridge.oninitialized = () => {
  if (query) bridge.sendToolInput({ arguments: { query, filters: { lang: ["python"] } } });
};
bridge.onsizechange = ({ height }) => { frame.style.height = `${height}px`; };
await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
frame.srcdoc = (await read("ui://codequarry/page")).contents[0].text;
