(document (object (pair key: (_) @name) @definition.key))
(document (object (pair value: (object (pair key: (_) @name value: [(object) (array)]) @definition.key))))
