(identifier) @name
(type_identifier) @type
(call_expression function: [
  (identifier) @call
  (field_expression field: (identifier) @call)
  (generic_function function: [(identifier) @call (field_expression field: (identifier) @call)])])
(instance_expression (type_identifier) @call)
(import_declaration) @import
[(function_definition) (function_declaration) (lambda_expression)] @scope
[(val_definition pattern: (identifier) @bound.variable) (var_definition pattern: (identifier) @bound.variable)] @extent
[(val_declaration name: (identifier) @bound.property) (var_declaration name: (identifier) @bound.property)] @extent
(class_parameter name: (identifier) @bound.property) @extent
(simple_enum_case name: (identifier) @bound.enum_member) @extent
(full_enum_case name: (identifier) @bound.enum_member) @extent
[(parameter name: (identifier) @bound.local) (binding name: (identifier) @bound.local)]
(arguments (assignment_expression left: (identifier) @outer))
