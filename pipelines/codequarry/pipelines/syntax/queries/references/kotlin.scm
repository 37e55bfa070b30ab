(identifier) @name
(user_type (identifier) @type)
(call_expression . [(identifier) @call (navigation_expression (identifier) @call .)])
(constructor_invocation (user_type (identifier) @call))
(import) @import
[(function_declaration) (anonymous_function) (lambda_literal) (getter) (setter) (anonymous_initializer)
 (secondary_constructor)] @scope
(property_declaration (variable_declaration (identifier) @bound.variable)) @extent
(property_declaration (multi_variable_declaration (variable_declaration (identifier) @bound.variable))) @extent
(class_parameter ["val" "var"] (identifier) @bound.property) @extent
(enum_entry (identifier) @bound.enum_member) @extent
[(parameter (identifier) @bound.local) (for_statement (variable_declaration (identifier) @bound.local))
 (lambda_parameters (variable_declaration (identifier) @bound.local))]
(value_argument . (identifier) @outer "=")
