(command name: (command_name (word) @_source) . argument: (_) @path (#any-of? @_source "source" "."))
[(if_statement) (elif_clause) (for_statement) (c_style_for_statement) (while_statement) (ternary_expression)] @branch
(case_item value: (_) @_pattern (#not-eq? @_pattern "*")) @branch
(list ["&&" "||"] @branch)
(binary_expression operator: ["&&" "||"]) @branch
