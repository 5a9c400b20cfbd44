"""What a call came to, in a form that two implementations can be compared by."""

from firstnan import ContractError
from reference.canonical import Unsupported
from reference.text import Refused

REFUSED = "refused"


def of_package(function, *arguments, **options):
    """The result, or REFUSED on a ContractError; any other exception fails the test."""
    try:
        return function(*arguments, **options)
    except ContractError as refusal:
        error = refusal
    assert error.layer in ("shape", "rule", "wire")
    assert isinstance(error.kind, str)
    assert isinstance(error.pointer, str)
    return REFUSED


def of_package_typed(function, *arguments, **options):
    """As `of_package`, where the contract also allows a TypeError."""
    try:
        return of_package(function, *arguments, **options)
    except TypeError:
        return REFUSED


def of_reference(function, *arguments, **options):
    """The result, or REFUSED."""
    try:
        return function(*arguments, **options)
    except (Refused, Unsupported):
        return REFUSED


def layer_of(function, *arguments):
    """None where the package accepts, else the layer that refuses."""
    try:
        function(*arguments)
    except ContractError as error:
        return error.layer
    return None
