(type_identifier) @type
(import_alias) @import
