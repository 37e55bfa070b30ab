(identifier) @name
(type_identifier) @type
(method_invocation name: (identifier) @call)
(method_reference (identifier) @call .)
(object_creation_expression type: [(type_identifier) @call (generic_type (type_identifier) @call)])
(annotation name: (identifier) @type)
(marker_annotation name: (identifier) @type)
(import_declaration) @import
