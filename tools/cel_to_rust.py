"""Compiles a CEL rule to a Rust expression: cel-python parses, this file translates the subset of schemas/README.md.

The subset is typed. A number from a record must be converted (`int(x)`, `double(x)`) before it is compared or computed
with, so that an engine which binds JSON numbers either way agrees. Whatever is not in the subset stops the generator.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import lark
from celpy.celparser import CELParseError, CELParser

from schema_model import (
    Array,
    Boolean,
    Choice,
    Integer,
    Model,
    Real,
    Record,
    RecordRef,
    Text,
    Type,
    Union,
    UnionRef,
    UnsupportedSchema,
    pascal,
)

ARITHMETIC = {"addition_add": ("add", "+"), "addition_sub": ("sub", "-"),
              "multiplication_mul": ("mul", "*"), "multiplication_div": ("div", "/"), "multiplication_mod": ("rem", None)}
RELATIONS = {"relation_eq": "==", "relation_ne": "!=", "relation_lt": "<", "relation_le": "<=",
             "relation_gt": ">", "relation_ge": ">="}
MACROS = ("all", "exists", "exists_one")


@dataclass(frozen=True)
class Raw:
    """A number as the record holds it, not yet converted."""

    of: type

    def __str__(self) -> str:
        return f"a {self.of.__name__.lower()} that is not converted"


@dataclass(frozen=True)
class Expr:
    """Rust code of a type; where `fallible`, the code has type Option and None is CEL's error."""

    code: str
    type: Any
    fallible: bool = False
    nullable: bool = False
    literal: str | None = None

    @property
    def lifted(self) -> str:
        return self.code if self.fallible else f"Some({self.code})"


class Compiler:
    def __init__(self, model: Model, where: str) -> None:
        self.model, self.where = model, where

    def fail(self, why: str) -> UnsupportedSchema:
        return UnsupportedSchema(f"{self.where}: {why}")

    def rule(self, text: str, record: Record) -> str:
        """A Rust expression of type bool over `self`."""
        try:
            tree = CELParser().parse(text)
        except CELParseError as error:
            raise self.fail(f"not CEL: {error}") from error
        result = self.expr(tree, {"self": Expr("self", record)})
        if result.type != "bool" or result.nullable:
            raise self.fail("a rule is a boolean")
        return f"{result.code} == Some(true)" if result.fallible else result.code

    def expr(self, tree: lark.Tree[Any] | lark.Token, scope: dict[str, Expr]) -> Expr:
        if isinstance(tree, lark.Token):
            raise self.fail(f"unexpected {tree}")
        handler: Callable[[list[Any], dict[str, Expr]], Expr] | None = getattr(self, f"on_{tree.data}", None)
        if handler is None:
            raise self.fail(f"the construct {tree.data!s} is not in the subset of CEL that is compiled")
        return handler(tree.children, scope)

    def single(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        if len(children) != 1:
            raise self.fail("unexpected construct")
        return self.expr(children[0], scope)

    on_member = on_primary = on_paren_expr = single

    def on_expr(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        if len(children) == 1:
            return self.expr(children[0], scope)
        condition, yes, no = (self.expr(child, scope) for child in children)
        if condition.type != "bool" or yes.type != no.type or yes.nullable or no.nullable:
            raise self.fail("a conditional has a boolean and two values of one type")
        if condition.fallible:
            return Expr(f"{condition.code}.and_then(|it| if it {{ {yes.lifted} }} else {{ {no.lifted} }})", yes.type, True)
        if yes.fallible or no.fallible:
            return Expr(f"(if {condition.code} {{ {yes.lifted} }} else {{ {no.lifted} }})", yes.type, True)
        return Expr(f"(if {condition.code} {{ {yes.code} }} else {{ {no.code} }})", yes.type)

    def logical(self, children: list[Any], scope: dict[str, Expr], operator: str, function: str) -> Expr:
        if len(children) == 1:
            return self.expr(children[0], scope)
        left, right = (self.expr(child, scope) for child in children)
        if left.type != "bool" or right.type != "bool" or left.nullable or right.nullable:
            raise self.fail(f"{operator} joins booleans")
        if not left.fallible and not right.fallible:
            return Expr(f"({left.code} {operator} {right.code})", "bool")
        return Expr(f"cel::{function}({left.lifted}, || {right.lifted})", "bool", True)

    def on_conditionalor(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        return self.logical(children, scope, "||", "or")

    def on_conditionaland(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        return self.logical(children, scope, "&&", "and")

    def on_relation(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        if len(children) == 1:
            return self.expr(children[0], scope)
        head, right_tree = children
        if head.data not in RELATIONS:
            raise self.fail(f"the relation {head.data!s} is not in the subset of CEL that is compiled")
        return self.compare(RELATIONS[head.data], self.expr(head.children[0], scope), self.expr(right_tree, scope))

    def compare(self, operator: str, left: Expr, right: Expr) -> Expr:
        equality = operator in ("==", "!=")
        if "null" in (left.type, right.type):
            value = left if right.type == "null" else right
            if not equality or not value.nullable or value.fallible:
                raise self.fail("only a field that may be null is compared with null, for equality")
            return Expr(f"{value.code}.is_{'none' if operator == '==' else 'some'}()", "bool")
        for one, other in ((left, right), (right, left)):
            if isinstance(one.type, Choice) and other.literal is not None and equality:
                if other.literal not in one.type.values:
                    raise self.fail(f"{other.literal!r} is not a value of {one.type.rust}")
                variant = f"{one.type.rust}::{pascal(other.literal)}"
                if one.fallible:
                    return Expr(f"{one.code}.map(|it| it {operator} {variant})", "bool", True)
                return Expr(f"({one.code} {operator} {f'Some({variant})' if one.nullable else variant})", "bool")
        left, right = self.plain(left), self.plain(right)
        if left.type != right.type or left.type not in ("int", "double", "string", "bool"):
            raise self.fail(f"{operator} compares {left.type} with {right.type}; convert with int() or double()")
        if not equality and left.type in ("string", "bool"):
            raise self.fail(f"{operator} orders numbers only")
        if left.nullable or right.nullable:
            if not equality or left.fallible or right.fallible:
                raise self.fail("a field that may be null is compared for equality only")
            a, b = (each.code if each.nullable else f"Some({each.code})" for each in (left, right))
            return Expr(f"({a} {operator} {b})", "bool")
        if left.fallible or right.fallible:
            return Expr(f"{left.lifted}.zip({right.lifted}).map(|(a, b)| a {operator} b)", "bool", True)
        return Expr(f"({left.code} {operator} {right.code})", "bool")

    def plain(self, value: Expr) -> Expr:
        """A choice as its string."""
        if not isinstance(value.type, Choice):
            return value
        wrapped = value.fallible or value.nullable
        code = f"{value.code}.map(|it| it.as_str())" if wrapped else f"{value.code}.as_str()"
        return replace(value, code=code, type="string")

    def arithmetic(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        if len(children) == 1:
            return self.expr(children[0], scope)
        head, right_tree = children
        function, operator = ARITHMETIC[head.data]
        left, right = self.expr(head.children[0], scope), self.expr(right_tree, scope)
        if left.type == right.type == "int":
            return Expr(f"cel::{function}({left.lifted}, {right.lifted})", "int", True)
        if left.type == right.type == "double" and operator:
            if left.fallible or right.fallible:
                return Expr(f"{left.lifted}.zip({right.lifted}).map(|(a, b)| a {operator} b)", "double", True)
            return Expr(f"({left.code} {operator} {right.code})", "double")
        raise self.fail(f"arithmetic on {left.type} and {right.type}; convert with int() or double()")

    on_addition = on_multiplication = arithmetic

    def on_unary(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        if len(children) == 1:
            return self.expr(children[0], scope)
        operator, operand = children[0].data, self.expr(children[1], scope)
        if operator == "unary_not" and operand.type == "bool" and not operand.nullable:
            return Expr(f"{operand.code}.map(|it| !it)" if operand.fallible else f"(!{operand.code})", "bool", operand.fallible)
        raise self.fail(f"{operator!s} of {operand.type}")

    def on_literal(self, children: list[Any], _scope: dict[str, Expr]) -> Expr:
        token = children[0]
        if token.type == "NULL_LIT" or token == "null":
            return Expr("", "null")
        if token in ("true", "false"):
            return Expr(str(token), "bool")
        if token.type == "INT_LIT":
            return Expr(f"{int(token)}_i64", "int")
        if token.type == "FLOAT_LIT":
            return Expr(f"{float(token)!r}_f64", "double")
        if token.type == "STRING_LIT" and token[0] in "'\"" and "\\" not in token:
            value = ast.literal_eval(str(token))
            return Expr(rust_string(value), "string", literal=value)
        raise self.fail(f"the literal {token} is not in the subset of CEL that is compiled")

    def on_ident(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        name = str(children[0])
        if name not in scope:
            raise self.fail(f"unknown name {name}")
        return scope[name]

    def on_ident_arg(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        name = str(children[0])
        arguments = [self.expr(child, scope) for child in children[1].children] if len(children) > 1 else []
        if len(arguments) != 1:
            raise self.fail(f"{name} takes one argument")
        value = arguments[0]
        if name == "size" and isinstance(value.type, Array) and not value.nullable:
            code = f"{value.code}.map(|it| cel::size(it))" if value.fallible else f"cel::size({value.code})"
            return Expr(code, "int", value.fallible)
        if isinstance(value.type, Raw):
            wrapped = value.fallible or value.nullable
            if name == "int" and value.type.of is Integer:
                return Expr(value.code, "int", wrapped)
            if name == "double":
                if value.type.of is Real:
                    return Expr(value.code, "double", wrapped)
                code = f"{value.code}.map(|it| it as f64)" if wrapped else f"({value.code} as f64)"
                return Expr(code, "double", wrapped)
        raise self.fail(f"{name}({value.type}) is not in the subset of CEL that is compiled")

    def on_member_index(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        value, index = self.expr(children[0], scope), self.expr(children[1], scope)
        if not isinstance(value.type, Array) or value.nullable or index.type != "int":
            raise self.fail("an index takes an array and an integer")
        code = f"cel::at({'it' if value.fallible else value.code}, {index.lifted})"
        return self.element(value.type.item, f"{value.code}.and_then(|it| {code})" if value.fallible else code)

    def element(self, item: Type, option: str) -> Expr:
        """An element of a list from code of type `Option<&T>`."""
        if isinstance(item, Integer):
            return Expr(f"{option}.copied()", Raw(Integer), True)
        if isinstance(item, Real):
            return Expr(f"{option}.map(|it| it.to_f64())", Raw(Real), True)
        if isinstance(item, Text):
            return Expr(f"{option}.map(|it| it.as_ref())", "string", True)
        if isinstance(item, Choice):
            return Expr(f"{option}.copied()", item, True)
        if isinstance(item, RecordRef):
            return Expr(option, self.model.records[item.title], True)
        if isinstance(item, UnionRef):
            return Expr(option, self.model.unions[item.title], True)
        raise self.fail(f"elements of type {item}")

    def on_member_dot(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        owner, name = self.expr(children[0], scope), str(children[1])
        if owner.nullable:
            raise self.fail(f"a member of what may be null: {name}")
        if isinstance(owner.type, Union):
            if name != owner.type.tag_field:
                raise self.fail(f"{owner.type.title} shares only {owner.type.tag_field}")
            kind, optional = owner.type.tag, False
            access: Callable[[str], str] = "{}.tag()".format
        elif isinstance(owner.type, Record):
            found = owner.type.field(name)
            access, kind, optional = self.access(found.name, found.type, found.optional)
        else:
            raise self.fail(f"{name}: not a record")
        if not owner.fallible:
            return Expr(access(owner.code), kind, nullable=optional)
        if optional:
            raise self.fail(f"{name}: a field that may be null of a record that may be missing")
        return Expr(f"{owner.code}.map(|it| {access('it')})", kind, True)

    def access(self, name: str, type_: Type, optional: bool) -> tuple[Callable[[str], str], Any, bool]:
        if isinstance(type_, Integer):
            return lambda it: f"{it}.{name}", Raw(Integer), optional
        if isinstance(type_, Boolean):
            return lambda it: f"{it}.{name}", "bool", optional
        if isinstance(type_, Choice):
            return lambda it: f"{it}.{name}", type_, optional
        if isinstance(type_, Real):
            if optional:
                return lambda it: f"{it}.{name}.as_ref().map(|it| it.to_f64())", Raw(Real), True
            return lambda it: f"{it}.{name}.to_f64()", Raw(Real), False
        if isinstance(type_, Text):
            method = "as_deref" if optional else "as_ref"
            return lambda it: f"{it}.{name}.{method}()", "string", optional
        if isinstance(type_, Array) and not optional:
            return lambda it: f"{it}.{name}.as_slice()", type_, False
        if isinstance(type_, RecordRef) and not optional:
            return lambda it: f"(&{it}.{name})", self.model.records[type_.title], False
        if isinstance(type_, UnionRef) and not optional:
            return lambda it: f"(&{it}.{name})", self.model.unions[type_.title], False
        raise self.fail(f"{name}: rules do not look into {type_}")

    def on_member_dot_arg(self, children: list[Any], scope: dict[str, Expr]) -> Expr:
        owner, name = self.expr(children[0], scope), str(children[1])
        arguments = children[2].children if len(children) > 2 else []
        if name not in MACROS or not isinstance(owner.type, Array) or owner.nullable or owner.fallible or len(arguments) != 2:
            raise self.fail(f".{name}() is not in the subset of CEL that is compiled")
        tokens = list(arguments[0].scan_values(lambda token: True))
        if len(tokens) != 1 or str(tokens[0]) in scope:
            raise self.fail(f".{name}() names one new variable")
        variable = str(tokens[0])
        item = self.element(owner.type.item, f"Some({variable})")
        if isinstance(item.type, (Record, Union)):
            item = Expr(variable, item.type)
        test = self.expr(arguments[1], {**scope, variable: item})
        if test.type != "bool" or test.nullable:
            raise self.fail(f".{name}() takes a boolean")
        return Expr(f"cel::{name}({owner.code}, |{variable}| {test.lifted})", "bool", True)


def rust_string(text: str) -> str:
    escaped = "".join(
        c if c.isascii() and c.isprintable() and c not in '"\\' else "\\" + c if c in '"\\' else f"\\u{{{ord(c):x}}}"
        for c in text
    )
    return f'"{escaped}"'


def compile_rule(model: Model, record: Record, rule_id: str, text: str) -> str:
    """The Rust expression (type bool, over `self`) of one rule.

    Raises:
        UnsupportedSchema: the rule is not CEL, or uses what is not in the subset.
    """
    return Compiler(model, f"{record.kind}, rule {rule_id}").rule(text, record)
