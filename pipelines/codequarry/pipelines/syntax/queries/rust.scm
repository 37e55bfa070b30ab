(function_item name: (_) @name) @definition.function
(function_signature_item name: (_) @name) @definition.function
(struct_item name: (_) @name) @definition.struct
(union_item name: (_) @name) @definition.struct
(enum_item name: (_) @name) @definition.enum
(trait_item name: (_) @name) @definition.trait
(mod_item name: (_) @name body: (_)) @definition.module
(type_item name: (_) @name) @definition.type
(const_item name: (_) @name) @definition.constant
(static_item name: (_) @name) @definition.constant
(macro_definition name: (_) @name) @definition.macro
(impl_item type: [
  (generic_type type: [(type_identifier) @name (scoped_type_identifier name: (_) @name)])
  (scoped_type_identifier name: (_) @name)
  (reference_type type: (_) @name)]) @scope.impl
(impl_item type: [
  (type_identifier) (primitive_type) (array_type) (tuple_type) (pointer_type) (dynamic_type) (unit_type)
  ] @name) @scope.impl
