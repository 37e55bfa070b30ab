"""The encoder fitted in a Dagster run: an asset that exists where the settings want it, and says how it went."""

from codequarry.pipelines.embed.encoders import SHIPPED
from codequarry.serving.encoders.spec import EncoderSpec


def verdict(result):
    (event,) = result.asset_materializations_for_node("fitted_encoder")
    return event.metadata["verdict"].text, event.metadata["kept"].value


def test_without_the_setting_there_is_no_such_asset(first_run):
    bench, result = first_run
    assert not result.asset_materializations_for_node("fitted_encoder")
    assert bench.manifest.encoder.adaptation == ""


def test_with_the_setting_the_verdict_is_in_the_run_and_in_the_bundle(published):
    published.configure("beta", "alpha", more="[embedding]\nadapt = true\n")
    result = published.reindex()
    assert result.success
    said, kept = verdict(result)
    assert (kept, published.manifest.encoder.adaptation) == (False, said)
    assert said.startswith("not tried: ")
    assert published.manifest.encoder.fingerprint == EncoderSpec.load(SHIPPED).fingerprint
