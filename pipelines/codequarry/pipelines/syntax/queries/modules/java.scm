(import_declaration) @clause
(package_declaration (_) @package)
[(if_statement) (for_statement) (enhanced_for_statement) (while_statement) (do_statement) (catch_clause)
 (ternary_expression) (binary_expression operator: ["&&" "||"])] @branch
(switch_label (_)) @branch
