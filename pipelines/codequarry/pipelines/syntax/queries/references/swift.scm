(simple_identifier) @name
(type_identifier) @type
(call_expression . [(simple_identifier) @call (navigation_expression suffix: (navigation_suffix suffix: (simple_identifier) @call))])
(import_declaration) @import
[(function_declaration) (init_declaration) (deinit_declaration) (lambda_literal) (computed_property)
 (protocol_function_declaration)] @scope
(property_declaration name: (pattern bound_identifier: (simple_identifier) @bound.variable)) @extent
(protocol_property_declaration name: (pattern bound_identifier: (simple_identifier) @bound.property)) @extent
(enum_entry name: (simple_identifier) @bound.enum_member) @extent
(associatedtype_declaration name: (type_identifier) @bound.type) @extent
(parameter name: (simple_identifier) @bound.local)
(value_argument name: (value_argument_label (simple_identifier) @outer))
