(function_declaration name: (_) @name) @definition.function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @qualifier
    (generic_type type: (type_identifier) @qualifier)
    (pointer_type [(type_identifier) @qualifier (generic_type type: (type_identifier) @qualifier)])]))
  name: (_) @name) @definition.method
(method_declaration name: (_) @name) @definition.method
(type_spec name: (_) @name type: (struct_type)) @definition.struct
(type_spec name: (_) @name type: (interface_type)) @definition.interface
(type_spec name: (_) @name) @definition.type
(type_alias name: (_) @name) @definition.type
(method_elem name: (_) @name) @definition.method
(var_spec name: (_) @name value: (expression_list (func_literal))) @definition.function
(source_file (const_declaration (const_spec name: (identifier) @name) @definition.constant))
