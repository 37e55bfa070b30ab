(class_declaration "interface" name: (_) @name) @definition.interface
(class_declaration name: (_) @name (enum_class_body)) @definition.enum
(class_declaration name: (_) @name) @definition.class
(object_declaration name: (_) @name) @definition.object
(function_declaration (user_type (identifier) @qualifier) "." name: (_) @name) @definition.function
(function_declaration name: (_) @name) @definition.function
(type_alias type: (identifier) @name) @definition.type
(property_declaration (modifiers (property_modifier "const")) (variable_declaration (identifier) @name))
  @definition.constant
