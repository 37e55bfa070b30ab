[(identifier) (property_identifier) (private_property_identifier) (shorthand_property_identifier)] @name
(call_expression function: [
  (identifier) @call
  (member_expression property: [(property_identifier) (private_property_identifier)] @call)])
(new_expression constructor: [(identifier) @call (member_expression property: (property_identifier) @call)])
(decorator [(identifier) @call (call_expression function: (identifier) @call)])
[(import_statement) (export_statement source: (_))] @import
[(function_declaration) (function_expression) (arrow_function) (generator_function_declaration) (generator_function)
 (method_definition)] @scope
(variable_declarator name: (identifier) @bound.variable) @extent
(variable_declarator name: (object_pattern [
  (shorthand_property_identifier_pattern) @bound.variable
  (pair_pattern value: (identifier) @bound.variable)])) @extent
(variable_declarator name: (array_pattern (identifier) @bound.variable)) @extent
(arrow_function parameter: (identifier) @bound.local)
(formal_parameters (_ (shorthand_property_identifier_pattern) @bound.local))
(catch_clause parameter: (identifier) @bound.local)
(for_in_statement left: (identifier) @bound.local)
(rest_pattern (identifier) @bound.local)
(assignment_pattern left: (identifier) @bound.local)
(assignment_expression left: (member_expression
  property: [(property_identifier) (private_property_identifier)] @bound.attribute)) @extent
(variable_declarator value: (object (pair key: (property_identifier) @bound.property) @extent))
(variable_declarator value: (object (shorthand_property_identifier) @bound.property))
(variable_declarator value: (object (pair value: (object (pair key: (property_identifier) @bound.property) @extent))))
(export_statement value: (object (pair key: (property_identifier) @bound.property) @extent))
(assignment_expression right: (object (pair key: (property_identifier) @bound.property) @extent))
[(pair key: (property_identifier) @outer) (pair_pattern key: (property_identifier) @outer)]
