(import) @clause
(package_header (_) @package)
[(if_expression) (for_statement) (while_statement) (do_while_statement) (when_entry condition: (_)) (catch_block)
 (binary_expression operator: ["&&" "||" "?:"])] @branch
