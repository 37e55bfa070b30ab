(identifier) @name
(invocation_expression function: [
  (identifier) @call
  (member_access_expression name: [(identifier) @call (generic_name (identifier) @call)])
  (generic_name (identifier) @call)])
(object_creation_expression type: [(identifier) @call (generic_name (identifier) @call)])
(base_list (identifier) @type)
(method_declaration returns: (identifier) @type)
(parameter type: (identifier) @type)
(variable_declaration type: (identifier) @type)
(using_directive) @import
[(method_declaration) (constructor_declaration) (destructor_declaration) (operator_declaration)
 (conversion_operator_declaration) (accessor_declaration) (lambda_expression) (anonymous_method_expression)
 (local_function_statement) (delegate_declaration)] @scope
(variable_declarator name: (identifier) @bound.local)
(field_declaration (variable_declaration (variable_declarator name: (identifier) @bound.field))) @extent
(event_field_declaration (variable_declaration (variable_declarator name: (identifier) @bound.event))) @extent
(event_declaration name: (identifier) @bound.event) @extent
(property_declaration name: (identifier) @bound.property) @extent
(enum_member_declaration name: (identifier) @bound.enum_member) @extent
(destructor_declaration name: (identifier) @bound.method) @extent
(record_declaration (parameter_list (parameter name: (identifier) @bound.property) @extent))
[(parameter name: (identifier) @bound.local) (foreach_statement left: (identifier) @bound.local)
 (catch_declaration name: (identifier) @bound.local) (declaration_pattern name: (identifier) @bound.local)
 (declaration_expression name: (identifier) @bound.local) (lambda_expression parameters: (implicit_parameter) @bound.local)]
(using_directive name: (identifier) @bound.type_alias) @extent
(argument name: (identifier) @outer)
(initializer_expression (assignment_expression left: (identifier) @outer))
