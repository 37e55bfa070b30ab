"""The SCIP messages (scip.proto of scip-code) that codequarry reads, declared at run time without a compiler.

Fields left out are skipped by the parser. Numbers and names are the specification's; ``Kind`` and ``PositionEncoding``
are enums so that the JSON form, which names their values, reads the same way.
"""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_MESSAGES: dict[str, str] = {
    "ToolInfo": "string name 1, string version 2",
    "Metadata": "ToolInfo tool_info 2",
    "Relationship": "string symbol 1, bool is_reference 2, bool is_implementation 3, bool is_type_definition 4, "
    "bool is_definition 5",
    "SymbolInformation": "string symbol 1, *string documentation 3, *Relationship relationships 4, Kind kind 5, "
    "string display_name 6, Document signature_documentation 7, string enclosing_symbol 8",
    "Occurrence": "*int32 range 1, string symbol 2, int32 symbol_roles 3, *int32 enclosing_range 7",
    "Document": "string relative_path 1, *Occurrence occurrences 2, *SymbolInformation symbols 3, string language 4, "
    "string text 5, PositionEncoding position_encoding 6",
    "Index": "Metadata metadata 1, *Document documents 2, *SymbolInformation external_symbols 3",
}
_ENUMS: dict[str, str] = {
    "PositionEncoding": "UnspecifiedPositionEncoding 0, UTF8CodeUnitOffsetFromLineStart 1, "
    "UTF16CodeUnitOffsetFromLineStart 2, UTF32CodeUnitOffsetFromLineStart 3",
    "Kind": "UnspecifiedKind 0, Array 1, Assertion 2, AssociatedType 3, Attribute 4, Axiom 5, Boolean 6, Class 7, "
    "Constant 8, Constructor 9, DataFamily 10, Enum 11, EnumMember 12, Event 13, Fact 14, Field 15, File 16, "
    "Function 17, Getter 18, Grammar 19, Instance 20, Interface 21, Key 22, Lang 23, Lemma 24, Macro 25, Method 26, "
    "MethodReceiver 27, Message 28, Module 29, Namespace 30, Null 31, Number 32, Object 33, Operator 34, Package 35, "
    "PackageObject 36, Parameter 37, ParameterLabel 38, Pattern 39, Predicate 40, Property 41, Protocol 42, "
    "Quasiquoter 43, SelfParameter 44, Setter 45, Signature 46, Subscript 47, String 48, Struct 49, Tactic 50, "
    "Theorem 51, ThisParameter 52, Trait 53, Type 54, TypeAlias 55, TypeClass 56, TypeFamily 57, TypeParameter 58, "
    "Union 59, Value 60, Variable 61, Contract 62, Error 63, Library 64, Modifier 65, AbstractMethod 66, "
    "MethodSpecification 67, ProtocolMethod 68, PureVirtualMethod 69, TraitMethod 70, TypeClassMethod 71, "
    "Accessor 72, Delegate 73, MethodAlias 74, SingletonClass 75, SingletonMethod 76, StaticDataMember 77, "
    "StaticEvent 78, StaticField 79, StaticMethod 80, StaticProperty 81, StaticVariable 82",
}
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": _FIELD.TYPE_STRING, "int32": _FIELD.TYPE_INT32, "bool": _FIELD.TYPE_BOOL}


def _declared() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="codequarry/scip.proto", package="scip", syntax="proto3")
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for value in values.split(", "):
            label, number = value.split()
            enum.value.add(name=label, number=int(number))
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for declaration in fields.split(", "):
            kind, label, number = declaration.removeprefix("*").split()
            repeated = _FIELD.LABEL_REPEATED if declaration.startswith("*") else _FIELD.LABEL_OPTIONAL
            field = message.field.add(name=label, number=int(number), label=repeated)
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = _FIELD.TYPE_ENUM if kind in _ENUMS else _FIELD.TYPE_MESSAGE
                field.type_name = f".scip.{kind}"
    return file


_pool = descriptor_pool.DescriptorPool()  # our own: nothing else in the process may declare the same names
_pool.Add(_declared())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"scip.{name}"))


Index, Document, SymbolInformation, Metadata = map(_message, ("Index", "Document", "SymbolInformation", "Metadata"))
KINDS: dict[int, str] = {value.number: value.name for value in _pool.FindEnumTypeByName("scip.Kind").values}
POSITION_ENCODINGS = {0: "", 1: "utf-8", 2: "utf-16", 3: "utf-32"}
"""Name of a column unit by its number; "" where the indexer does not say."""
