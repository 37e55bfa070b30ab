(namespace_use_declaration) @clause
(namespace_definition name: (_) @package)
[(require_expression) (require_once_expression) (include_expression) (include_once_expression)] @path
[(if_statement) (else_if_clause) (foreach_statement) (for_statement) (while_statement) (do_statement) (case_statement)
 (match_conditional_expression) (catch_clause) (conditional_expression)
 (binary_expression operator: ["&&" "||" "and" "or" "??"])] @branch
