(class_heritage (identifier) @type)
(formal_parameters (identifier) @bound.local)
(field_definition property: [(property_identifier) (private_property_identifier)] @bound.field) @extent
