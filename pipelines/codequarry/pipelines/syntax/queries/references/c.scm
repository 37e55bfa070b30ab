[(identifier) (field_identifier)] @name
(type_identifier) @type
(call_expression function: [(identifier) @call (field_expression field: (field_identifier) @call)])
(function_definition) @scope
(parameter_list) @parameters
[(declaration) (field_declaration) (type_definition)] @extent
[(declaration declarator: (identifier) @bound.variable) (init_declarator declarator: (identifier) @bound.variable)
 (pointer_declarator declarator: (identifier) @bound.variable)
 (array_declarator declarator: (identifier) @bound.variable)]
(function_declarator declarator: (identifier) @bound.function)
[(field_declaration declarator: (field_identifier) @bound.field)
 (pointer_declarator declarator: (field_identifier) @bound.field)
 (array_declarator declarator: (field_identifier) @bound.field)]
(function_declarator declarator: (field_identifier) @bound.method)
[(pointer_declarator declarator: (type_identifier) @bound.type)
 (array_declarator declarator: (type_identifier) @bound.type)
 (function_declarator declarator: (type_identifier) @bound.type)]
(parameter_declaration declarator: (identifier) @bound.local)
(enumerator name: (identifier) @bound.enum_member) @extent
(preproc_def name: (identifier) @bound.macro) @extent
