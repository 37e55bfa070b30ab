(function_declaration name: (identifier) @name type: (builtin_type) @_type (#eq? @_type "type")) @definition.struct
(function_declaration name: (identifier) @name) @definition.function
(variable_declaration "const" . (identifier) @name (struct_declaration)) @definition.struct
(variable_declaration "const" . (identifier) @name (opaque_declaration)) @definition.struct
(variable_declaration "const" . (identifier) @name (enum_declaration)) @definition.enum
(variable_declaration "const" . (identifier) @name (error_set_declaration)) @definition.enum
(variable_declaration "const" . (identifier) @name (union_declaration)) @definition.struct
(test_declaration (string (string_content) @text) (block) @body) @definition.function
(source_file (variable_declaration "const" . (identifier) @name [
  (integer) (float) (character) (boolean) (string) (multiline_string) (struct_initializer) (initializer_list)
  (anonymous_struct_initializer) (call_expression) (unary_expression) (binary_expression) (block_expression)
  (if_expression) (switch_expression) (comptime_expression) (array_type)]) @definition.constant)
(struct_declaration (variable_declaration "const" . (identifier) @name [
  (integer) (float) (character) (boolean) (string) (multiline_string) (struct_initializer) (initializer_list)
  (anonymous_struct_initializer) (call_expression) (unary_expression) (binary_expression) (block_expression)
  (if_expression) (switch_expression) (comptime_expression) (array_type)]) @definition.constant)
