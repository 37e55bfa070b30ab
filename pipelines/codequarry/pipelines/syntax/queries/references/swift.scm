(simple_identifier) @name
(type_identifier) @type
(call_expression . [(simple_identifier) @call (navigation_expression suffix: (navigation_suffix suffix: (simple_identifier) @call))])
(import_declaration) @import
