(function_definition name: (_) @name) @definition.function
(program (variable_assignment name: (variable_name) @name) @definition.constant
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
(program (declaration_command (variable_assignment name: (variable_name) @name)) @definition.constant
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
