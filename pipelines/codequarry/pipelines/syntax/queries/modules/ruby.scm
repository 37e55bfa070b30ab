(call method: (identifier) @_method arguments: (argument_list . (string . (string_content) @source .))
  (#any-of? @_method "require" "load"))
(call method: (identifier) @_method arguments: (argument_list (simple_symbol) (string . (string_content) @source .))
  (#eq? @_method "autoload"))
(call method: (identifier) @_method arguments: (argument_list . (string . (string_content) @beside .))
  (#eq? @_method "require_relative"))
(program (if condition: (binary left: (identifier) @_file)) @entry (#eq? @_file "__FILE__"))
[(if) (elsif) (unless) (while) (until) (for) (when) (in_clause) (rescue) (conditional) (if_modifier) (unless_modifier)
 (while_modifier) (until_modifier) (rescue_modifier) (binary operator: ["&&" "||" "and" "or"])] @branch
