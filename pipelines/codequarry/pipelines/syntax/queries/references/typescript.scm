(type_identifier) @type
(import_alias) @import
(extends_clause value: (identifier) @type)
