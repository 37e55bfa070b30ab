(identifier) @name
(alias) @dotted
(call target: [(identifier) @call (dot right: (identifier) @call)])
(binary_operator operator: "|>" right: (identifier) @call)
(unary_operator "@" operand: (call target: (identifier) @_spec (arguments . (binary_operator
    left: (call target: (identifier) @skip) operator: "::")))
  (#eq? @_spec "spec"))
(call target: (identifier) @skip
  (#any-of? @skip "def" "defp" "defmacro" "defmacrop" "defguard" "defguardp" "defdelegate" "defmodule" "defprotocol"
    "defimpl" "defstruct" "defexception" "defoverridable" "alias" "import" "require" "use" "if" "unless" "case" "cond"
    "with" "for" "receive" "try" "quote" "unquote" "unquote_splicing" "raise" "reraise" "throw"))
(unary_operator "@" operand: (call target: (identifier) @skip
  (#any-of? @skip "doc" "moduledoc" "typedoc" "spec" "impl" "type" "typep" "opaque" "callback" "macrocallback"
    "optional_callbacks" "behaviour" "deprecated" "since" "derive" "dialyzer" "compile" "tag")))
(call target: (identifier) @_keyword (#any-of? @_keyword "alias" "import" "require" "use")) @import
