(namespace_definition name: (_) @name body: (_)) @definition.namespace
((namespace_definition name: (_) @name !body) @scope.namespace (#set! extent "rest"))
(function_definition name: (_) @name) @definition.function
(class_declaration name: (_) @name) @definition.class
(interface_declaration name: (_) @name) @definition.interface
(trait_declaration name: (_) @name) @definition.trait
(enum_declaration name: (_) @name) @definition.enum
(method_declaration name: (_) @name) @definition.method
(const_declaration (const_element . (name) @name)) @definition.constant
