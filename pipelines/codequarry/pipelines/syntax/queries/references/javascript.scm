(class_heritage (identifier) @type)
