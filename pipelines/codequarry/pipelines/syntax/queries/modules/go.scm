(import_spec path: [(interpreted_string_literal (_) @source) (raw_string_literal (_) @source)])
(package_clause (package_identifier) @package)
[(if_statement) (for_statement) (expression_case) (type_case) (communication_case)
 (binary_expression operator: ["&&" "||"])] @branch
