(call target: (identifier) @_keyword (arguments . [(alias) @name (dot right: (alias) @name)]) (do_block)
  (#eq? @_keyword "defmodule")) @definition.module
(call target: (identifier) @_keyword (arguments . [(alias) @name (dot right: (alias) @name)]) (do_block)
  (#eq? @_keyword "defprotocol")) @definition.interface
(call target: (identifier) @_keyword
  (arguments . (alias) @qualifier (keywords . (pair value: [(alias) @name (list . (alias) @name)]))) (do_block)
  (#eq? @_keyword "defimpl")) @definition.module
(call target: (identifier) @_keyword (arguments . (alias) @name .) (do_block)
  (#eq? @_keyword "defimpl")) @definition.module
(call target: (identifier) @name (#any-of? @name "defstruct" "defexception")) @definition.struct
(call target: (identifier) @_keyword (arguments . [
    (identifier) @name
    (call target: (identifier) @name (arguments) @parameters)
    (binary_operator left: [(identifier) @name (call target: (identifier) @name (arguments) @parameters)] operator: "when")
  ] (keywords) @body .)
  (#any-of? @_keyword "def" "defp" "defdelegate" "defn" "defnp") (#not-eq? @name "unquote")) @definition.function
(call target: (identifier) @_keyword (arguments . [
    (identifier) @name
    (call target: (identifier) @name (arguments) @parameters)
    (binary_operator left: [(identifier) @name (call target: (identifier) @name (arguments) @parameters)] operator: "when")
  ])
  (#any-of? @_keyword "def" "defp" "defdelegate" "defn" "defnp") (#not-eq? @name "unquote")) @definition.function
(call target: (identifier) @_keyword (arguments . [
    (identifier) @name
    (call target: (identifier) @name (arguments) @parameters)
    (binary_operator left: [(identifier) @name (call target: (identifier) @name (arguments) @parameters)] operator: "when")
  ] (keywords) @body .)
  (#any-of? @_keyword "defmacro" "defmacrop") (#not-eq? @name "unquote")) @definition.macro
(call target: (identifier) @_keyword (arguments . [
    (identifier) @name
    (call target: (identifier) @name (arguments) @parameters)
    (binary_operator left: [(identifier) @name (call target: (identifier) @name (arguments) @parameters)] operator: "when")
  ])
  (#any-of? @_keyword "defmacro" "defmacrop" "defguard" "defguardp") (#not-eq? @name "unquote")) @definition.macro
(call target: (identifier) @_keyword (arguments . (binary_operator operator: _ @name) (keywords) @body .)
  (#any-of? @_keyword "def" "defp") (#not-match? @name "^(when|::|\\\\)$")) @definition.function
(call target: (identifier) @_keyword (arguments . (binary_operator operator: _ @name)) (do_block)
  (#any-of? @_keyword "def" "defp") (#not-match? @name "^(when|::|\\\\)$")) @definition.function
(unary_operator "@" operand: (call target: (identifier) @_keyword (arguments . (binary_operator
    left: [(identifier) @name (call target: (identifier) @name)] operator: "::")))
  (#any-of? @_keyword "type" "typep" "opaque")) @definition.type
(unary_operator "@" operand: (call target: (identifier) @_keyword (arguments . [
    (binary_operator left: [(identifier) @name (call target: (identifier) @name)] operator: "::")
    (binary_operator
      left: (binary_operator left: [(identifier) @name (call target: (identifier) @name)] operator: "::")
      operator: "when")]))
  (#any-of? @_keyword "callback" "macrocallback")) @definition.method
(unary_operator "@" operand: (call target: (identifier) @name (arguments . (_)))
  (#not-match? @name "^(doc|moduledoc|typedoc|shortdoc|spec|impl|type|typep|opaque|callback|macrocallback|optional_callbacks|behaviour|deprecated|since|derive|dialyzer|compile|external_resource|enforce_keys|on_load|on_definition|before_compile|after_compile|after_verify|vsn|tag|moduletag|describetag|fallback_to_any|primary_key|foreign_key_type|schema_prefix|timestamps_opts)$")) @definition.constant

(unary_operator "@" operand: (call target: (identifier) @_keyword (arguments . [(string) (sigil)] @doc))
  (#any-of? @_keyword "doc" "typedoc")) @attribute
(unary_operator "@" operand: (call target: (identifier) @_keyword)
  (#any-of? @_keyword "doc" "typedoc" "spec" "impl" "deprecated" "since" "tag" "describetag")) @attribute
(unary_operator "@" operand: (call target: (identifier) @_keyword (arguments . [(string) (sigil)] @inside))
  (#eq? @_keyword "moduledoc"))
