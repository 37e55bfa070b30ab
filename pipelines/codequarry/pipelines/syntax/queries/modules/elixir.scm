(call target: (identifier) @_keyword (arguments . (alias) @path)
  (#any-of? @_keyword "alias" "import" "require" "use"))
(call target: (identifier) @_keyword (arguments . (dot) @clause)
  (#any-of? @_keyword "alias" "import" "require" "use"))
(source (call target: (identifier) @_keyword (arguments . (alias) @package)
  (#any-of? @_keyword "defmodule" "defprotocol")))
(call target: (identifier) @_keyword (#any-of? @_keyword "if" "unless" "for" "with")) @branch
(do_block (stab_clause left: (arguments . (_) @_pattern) (#not-match? @_pattern "^(_|true)$")) @branch)
(else_block (stab_clause left: (arguments . (_) @_pattern) (#not-match? @_pattern "^(_|true)$")) @branch)
[(rescue_block (stab_clause) @branch) (catch_block (stab_clause) @branch)]
(binary_operator operator: ["&&" "||" "and" "or"]) @branch
