(identifier) @name
(invocation (object_reference name: (identifier) @call))
(column_definition name: (identifier) @bound.field) @extent
