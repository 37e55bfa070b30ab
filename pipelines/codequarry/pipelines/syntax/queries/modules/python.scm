(import_statement name: [(dotted_name) @source (aliased_import name: (dotted_name) @source)])
(import_from_statement module_name: (_) @source name: (dotted_name) @name)
(import_from_statement module_name: (_) @source name: (aliased_import name: (dotted_name) @name alias: (_) @alias))
(import_from_statement module_name: (_) @source (wildcard_import) @name)
[(import_statement) (import_from_statement) (future_import_statement)] @plain
(module (expression_statement [
  (assignment left: (identifier) @_all right: (_) @listed)
  (augmented_assignment left: (identifier) @_all right: (_) @listed)
  (call function: (attribute object: (identifier) @_all) arguments: (_) @listed)]) @plain
  (#eq? @_all "__all__"))
(module (if_statement condition: (comparison_operator . (identifier) @_name)) @entry (#eq? @_name "__name__"))
[(if_statement) (elif_clause) (for_statement) (while_statement) (except_clause) (conditional_expression)
 (boolean_operator) (for_in_clause) (if_clause)] @branch
(case_clause (case_pattern (_))) @branch
