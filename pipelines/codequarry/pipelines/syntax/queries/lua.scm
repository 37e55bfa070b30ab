(function_declaration name: [(identifier) (dot_index_expression)] @name) @definition.function
(function_declaration name: (method_index_expression table: (_) @qualifier method: (_) @name)) @definition.method
(_ (variable_declaration (assignment_statement
  (variable_list . name: (identifier) @name .)
  (expression_list . value: (function_definition body: (_) @body) .))) @definition.function)
(_ (variable_declaration (assignment_statement
  (variable_list . name: (identifier) @name .)
  (expression_list . value: (function_definition) .))) @definition.function)
(chunk (assignment_statement
  (variable_list . name: [
    (identifier) @name
    (dot_index_expression) @name
    (bracket_index_expression table: (_) @qualifier field: (string (string_content) @name))] .)
  (expression_list . value: (function_definition body: (_) @body) .)) @definition.function)
(chunk (assignment_statement
  (variable_list . name: [
    (identifier) @name
    (dot_index_expression) @name
    (bracket_index_expression table: (_) @qualifier field: (string (string_content) @name))] .)
  (expression_list . value: (function_definition) .)) @definition.function)
(block (assignment_statement
  (variable_list . name: [
    (identifier) @name
    (dot_index_expression) @name
    (bracket_index_expression table: (_) @qualifier field: (string (string_content) @name))] .)
  (expression_list . value: (function_definition body: (_) @body) .)) @definition.function)
(block (assignment_statement
  (variable_list . name: [
    (identifier) @name
    (dot_index_expression) @name
    (bracket_index_expression table: (_) @qualifier field: (string (string_content) @name))] .)
  (expression_list . value: (function_definition) .)) @definition.function)
(chunk (variable_declaration (assignment_statement
  (variable_list . name: (identifier) @name .)
  (expression_list . value: [(table_constructor) (function_call name: (identifier) @_metatable)] .)))
  @definition.object (#eq? @_metatable "setmetatable"))
(chunk (assignment_statement
  (variable_list . name: [(identifier) (dot_index_expression)] @name .)
  (expression_list . value: [(table_constructor) (function_call name: (identifier) @_metatable)] .))
  @definition.object (#eq? @_metatable "setmetatable"))
(block (variable_declaration (assignment_statement
  (variable_list . name: (identifier) @name .)
  (expression_list . value: (table_constructor) .))) @scope.object)
(field name: (identifier) @name value: (function_definition body: (_) @body)) @definition.method
(field name: (identifier) @name value: (function_definition)) @definition.method
(field name: (identifier) @name value: (table_constructor)) @scope.object
(chunk (variable_declaration (assignment_statement
  (variable_list . name: (identifier) @name)
  (expression_list . value: [(string) (number) (true) (false) (unary_expression) (binary_expression)])))
  @definition.constant
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
(chunk (assignment_statement
  (variable_list . name: [(identifier) (dot_index_expression)] @name)
  (expression_list . value: [(string) (number) (true) (false) (unary_expression) (binary_expression)]))
  @definition.constant
  (#match? @name "(^|[.])_*[A-Z][A-Z0-9_]*$"))
