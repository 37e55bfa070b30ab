(identifier) @name
(invocation (object_reference name: (identifier) @call))
