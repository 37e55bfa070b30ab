[(identifier) (field_identifier)] @name
(type_identifier) @type
(call_expression function: [(identifier) @call (field_expression field: (field_identifier) @call)])
