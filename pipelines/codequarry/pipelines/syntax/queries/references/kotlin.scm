(identifier) @name
(user_type (identifier) @type)
(call_expression . [(identifier) @call (navigation_expression (identifier) @call .)])
(constructor_invocation (user_type (identifier) @call))
(import) @import
