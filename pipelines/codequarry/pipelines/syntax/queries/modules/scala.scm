(import_declaration) @clause
(package_clause name: (_) @package)
(object_definition extend: (extends_clause type: (type_identifier) @_app) (#any-of? @_app "App" "IOApp" "ZIOAppDefault")) @entry
(function_definition (annotation name: (type_identifier) @_main) (#eq? @_main "main")) @entry
[(if_expression) (for_expression) (while_expression) (do_while_expression) (guard)] @branch
(infix_expression operator: (operator_identifier) @_operator (#any-of? @_operator "&&" "||")) @branch
(case_clause pattern: (_) @_pattern (#not-eq? @_pattern "_")) @branch
