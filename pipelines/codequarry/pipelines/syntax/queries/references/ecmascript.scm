[(identifier) (property_identifier) (private_property_identifier) (shorthand_property_identifier)] @name
(call_expression function: [
  (identifier) @call
  (member_expression property: [(property_identifier) (private_property_identifier)] @call)])
(new_expression constructor: [(identifier) @call (member_expression property: (property_identifier) @call)])
(decorator [(identifier) @call (call_expression function: (identifier) @call)])
[(import_statement) (export_statement source: (_))] @import
