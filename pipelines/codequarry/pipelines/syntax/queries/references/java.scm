(identifier) @name
(type_identifier) @type
(method_invocation name: (identifier) @call)
(method_reference (identifier) @call .)
(object_creation_expression type: [(type_identifier) @call (generic_type (type_identifier) @call)])
(annotation name: (identifier) @type)
(marker_annotation name: (identifier) @type)
(import_declaration) @import
[(method_declaration) (constructor_declaration) (compact_constructor_declaration) (lambda_expression)
 (static_initializer) (class_body (block))] @scope
(field_declaration declarator: (variable_declarator name: (identifier) @bound.field)) @extent
(local_variable_declaration declarator: (variable_declarator name: (identifier) @bound.local))
[(formal_parameter name: (identifier) @bound.local) (catch_formal_parameter name: (identifier) @bound.local)
 (enhanced_for_statement name: (identifier) @bound.local) (resource name: (identifier) @bound.local)
 (inferred_parameters (identifier) @bound.local) (lambda_expression parameters: (identifier) @bound.local)
 (spread_parameter (variable_declarator name: (identifier) @bound.local))]
(record_declaration parameters: (formal_parameters (formal_parameter name: (identifier) @bound.field) @extent))
(enum_constant name: (identifier) @bound.enum_member) @extent
(annotation_type_element_declaration name: (identifier) @bound.method) @extent
