(using_directive) @clause
[(file_scoped_namespace_declaration name: (_) @package) (namespace_declaration name: (_) @package)]
(compilation_unit (global_statement) @entry)
[(if_statement) (for_statement) (foreach_statement) (while_statement) (do_statement) (catch_clause)
 (conditional_expression) (switch_section "case") (binary_expression operator: ["&&" "||" "??"])] @branch
(switch_expression_arm . (_) @_pattern (#not-eq? @_pattern "_")) @branch
