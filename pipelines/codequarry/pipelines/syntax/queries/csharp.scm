(namespace_declaration name: (_) @name) @definition.namespace
((file_scoped_namespace_declaration name: (_) @name) @scope.namespace (#set! extent "rest"))
(class_declaration name: (_) @name) @definition.class
(record_declaration name: (_) @name) @definition.class
(struct_declaration name: (_) @name) @definition.struct
(interface_declaration name: (_) @name) @definition.interface
(enum_declaration name: (_) @name) @definition.enum
(delegate_declaration name: (_) @name) @definition.type
(method_declaration name: (_) @name) @definition.method
(constructor_declaration name: (_) @name) @definition.method
(local_function_statement name: (_) @name) @definition.function
(field_declaration (modifier "const") (variable_declaration (variable_declarator name: (_) @name)))
  @definition.constant
