(function_definition declarator: (reference_declarator (function_declarator declarator: (_) @name)))
  @definition.function
(class_specifier name: (_) @name body: (_)) @definition.class
(namespace_definition name: (_) @name) @definition.namespace
(concept_definition name: (_) @name) @definition.type
(alias_declaration name: (_) @name) @definition.type
