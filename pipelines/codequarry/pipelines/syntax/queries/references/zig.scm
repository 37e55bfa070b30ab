(identifier) @name
((identifier) @skip (#eq? @skip "_"))
(call_expression function: [(identifier) @call (field_expression member: (identifier) @call)])
(parameter type: [
  (identifier) @type
  (field_expression member: (identifier) @type)
  (_ [(identifier) @type (field_expression member: (identifier) @type)])])
(function_declaration type: [
  (identifier) @type
  (field_expression member: (identifier) @type)
  (_ [(identifier) @type (field_expression member: (identifier) @type)])])
(container_field type: [
  (identifier) @type
  (field_expression member: (identifier) @type)
  (_ [(identifier) @type (field_expression member: (identifier) @type)])])
(variable_declaration type: [
  (identifier) @type
  (field_expression member: (identifier) @type)
  (_ [(identifier) @type (field_expression member: (identifier) @type)])])
(struct_initializer . [(identifier) @type (field_expression member: (identifier) @type)])
(variable_declaration . (identifier) (builtin_function (builtin_identifier) @_import) (#eq? @_import "@import")) @import
(variable_declaration . (identifier) (field_expression object: (builtin_function (builtin_identifier) @_import))
  (#eq? @_import "@import")) @import
[(function_declaration) (test_declaration)] @scope
(variable_declaration (identifier) @bound.variable) @extent
(container_field name: (identifier) @bound.field) @extent
(parameter name: (identifier) @bound.local)
(payload (identifier) @bound.local)
