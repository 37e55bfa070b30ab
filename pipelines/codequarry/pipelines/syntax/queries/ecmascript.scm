(function_declaration name: (_) @name) @definition.function
(generator_function_declaration name: (_) @name) @definition.function
(class_declaration name: (_) @name) @definition.class
(method_definition name: (_) @name) @definition.method
(variable_declarator name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(variable_declarator name: (identifier) @name value: (class)) @definition.class
(variable_declarator name: (identifier) @name value: (object)) @scope.object
(pair key: (property_identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.method
(pair key: (property_identifier) @name value: (object)) @scope.object
(expression_statement (assignment_expression left: (member_expression) @name
  right: [(arrow_function) (function_expression) (generator_function)])) @definition.function
(expression_statement (assignment_expression left: (member_expression) @name right: (class))) @definition.class
(program (lexical_declaration "const" (variable_declarator name: (identifier) @name
  value: [(string) (template_string) (number) (true) (false) (null) (regex) (array) (object) (new_expression)
    (call_expression) (member_expression) (unary_expression) (binary_expression)]) @definition.constant)
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
(program (export_statement (lexical_declaration "const" (variable_declarator name: (identifier) @name
  value: [(string) (template_string) (number) (true) (false) (null) (regex) (array) (object) (new_expression)
    (call_expression) (member_expression) (unary_expression) (binary_expression)]) @definition.constant))
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
