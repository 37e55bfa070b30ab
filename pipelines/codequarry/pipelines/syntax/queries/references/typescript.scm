(type_identifier) @type
(import_alias) @import
(extends_clause value: (identifier) @type)
[(function_signature) (method_signature) (abstract_method_signature) (call_signature) (construct_signature)
 (function_type) (constructor_type)] @scope
[(required_parameter pattern: (identifier) @bound.local) (optional_parameter pattern: (identifier) @bound.local)]
[(required_parameter (accessibility_modifier) pattern: (identifier) @bound.promoted)
 (optional_parameter (accessibility_modifier) pattern: (identifier) @bound.promoted)] @extent
(required_parameter pattern: (object_pattern (shorthand_property_identifier_pattern) @bound.local))
(public_field_definition name: [(property_identifier) (private_property_identifier)] @bound.field) @extent
(property_signature name: (property_identifier) @bound.property) @extent
(enum_body name: (property_identifier) @bound.enum_member)
(enum_assignment name: (property_identifier) @bound.enum_member) @extent
