(identifier) @name
(function_call name: [
  (identifier) @call
  (dot_index_expression field: (identifier) @call)
  (method_index_expression method: (identifier) @call)])
(field name: (identifier) @skip)
(attribute (identifier) @skip)
[(function_declaration) (function_definition)] @scope
(variable_declaration (variable_list name: (identifier) @bound.variable)) @extent
(variable_declaration (assignment_statement (variable_list name: (identifier) @bound.variable)) @extent)
(chunk (assignment_statement (variable_list name: (identifier) @bound.variable)) @extent)
(chunk (assignment_statement (variable_list name: (dot_index_expression field: (identifier) @bound.field))) @extent)
(variable_declaration (assignment_statement (expression_list value: (table_constructor (field name: (identifier) @bound.field) @extent))))
(parameters name: (identifier) @bound.local)
(for_generic_clause (variable_list name: (identifier) @bound.local))
(for_numeric_clause name: (identifier) @bound.local)
