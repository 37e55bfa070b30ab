(class_declaration declaration_kind: "struct" name: (_) @name) @definition.struct
(class_declaration declaration_kind: "enum" name: (_) @name) @definition.enum
(class_declaration declaration_kind: "extension" name: (_) @name) @scope.impl
(class_declaration declaration_kind: ["class" "actor"] name: (_) @name) @definition.class
(protocol_declaration name: (_) @name) @definition.interface
(protocol_function_declaration "func" . name: _ @name) @definition.method
(function_declaration "func" . name: _ @name) @definition.function
(init_declaration name: "init" @name) @definition.method
(deinit_declaration "deinit" @name) @definition.method
(typealias_declaration name: (type_identifier) @name) @definition.type
(source_file (property_declaration (value_binding_pattern "let")
  name: (pattern bound_identifier: (_) @name)) @definition.constant)
