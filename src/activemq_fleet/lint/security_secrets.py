"""Rules S about secrets: in clear text, encrypted with DES, and easily guessed passwords of key stores."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.lint.security_accounts import is_weak_account, properties_lines
from activemq_fleet.settings.default_credentials import is_guessable_credential

_SENSITIVE_WORDS = "password|passwd|passphrase|pwd|secret"
_SECRET_SUFFIXES = tuple(_SENSITIVE_WORDS.split("|"))
_SECRET_ASSIGNMENTS = tuple(f"{word}=" for word in _SECRET_SUFFIXES)
_PASSWORD_IN_TEXT = re.compile(
    r"(?:password|passwd|passphrase|pwd|secret)=([^&;)\s\"',]+)|//[^/\s:@(]+:([^@/\s]+)@", re.IGNORECASE
)
_SECRET_OPTION = re.compile(rf"-D([^=]*(?:{_SENSITIVE_WORDS}|token))=(.+)", re.IGNORECASE)
_NAMED_VALUE_ELEMENTS = frozenset({"property", "entry", "prop", "constructor-arg"})
_NOT_CLEAR_TEXT = re.compile(r".*[$#]\{.*|ENC\(.*|\*+|#.*|", re.DOTALL)
_STORE_PASSWORD_NAMES = frozenset({"keystorepassword", "truststorepassword", "keystorekeypassword", "keypassword"})
"""Names of attributes with the password of a key or trust store, in lowercase."""
_ENCRYPTED_VALUE = re.compile(r"ENC\(([A-Za-z0-9+/=]{16,})\)")
_STORE_REMEDY = (
    "remove the option. Write the password of the key store or trust store as ${…} in <sslContext>, and define its "
    "value in a properties file of activemq_extra_files"
)
_OPTION_REMEDY = (
    "if activemq.xml uses the value as ${…}, define it in a properties file of activemq_extra_files. If other "
    "software, such as a Java agent, reads this option, use that software's option for a password file. The name of "
    "such an option often ends in .file"
)
_AES_BLOCK = 16  # bytes; jasypt writes a salt and an initialization vector of one block each before the text


def _is_clear_text_secret(value: str) -> bool:
    """Return whether a secret is in clear text.

    A placeholder, a reference, and an encrypted or masked value are not clear text.
    """
    return not _NOT_CLEAR_TEXT.fullmatch(value.strip())


@rule("S010", "warning")
def clear_text_password_in_activemq_xml(document: Document) -> Iterator[Problem]:
    """activemq.xml contains a password in clear text.

    Why: every administrator can read the file, and copies of it are on every node and often in a repository. The
        password exposes an account of a broker, a database, a directory or a key store.
    Fix: write a placeholder such as ${network.password} and define the value in a properties file that only the broker
        can read (mode 0640), loaded by a PropertyPlaceholderConfigurer.
    Cannot see: secrets in attributes with unrelated names, and the files next to activemq.xml.
    Source: the schema; Spring's beans; reference of encrypted passwords

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)" userName="net" password="rosebud"/>

    Fires on 5.18.3::

        <broker>
          <sslContext><sslContext keyStore="file:broker.ks" keyStorePassword="rosebud"/></sslContext>
        </broker>

    Fires on 5.18.3::

        <bean id="store" class="org.apache.commons.dbcp2.BasicDataSource">
          <property name="url" value="jdbc:postgresql://db/activemq"/>
          <property name="password" value="rosebud"/>
        </bean>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)" userName="net" password="${network.password}"/>

    Silent on 5.18.3::

        <bean id="store" class="org.apache.commons.dbcp2.BasicDataSource">
          <property name="password" value="${db.password}"/>
        </bean>
    """
    secrets = {name for name in document.attribute_names_in_file if name.lower().endswith(_SECRET_SUFFIXES)}
    for node in document.nodes:
        for name, value in node.attributes.items():
            if name in secrets:
                if _is_clear_text_secret(value) and not is_weak_account(node, name):
                    yield node.problem(
                        f"the {_local_name(name)} of {_owner_text(node)} is in the file in clear text",
                        name,
                        fix=_placeholder_fix(name, node),
                    )
            elif ("=" in value or "@" in value) and _contains_clear_text_password(value):
                text = f"a password in the {_local_name(name)} of {_owner_text(node)} is in the file in clear text"
                yield node.problem(text, name, fix=_placeholder_fix("password", node))
        if node.name in _NAMED_VALUE_ELEMENTS:
            yield from _property_problems(node)


def _local_name(attribute: str) -> str:
    return attribute.rpartition("}")[2]


def _contains_clear_text_password(text: str) -> bool:
    """Return whether a text such as a URI contains a password in clear text."""
    lowercase = text.lower()  # a search for words in lowercase text is many times faster than the pattern
    if "@" not in lowercase and not any(word in lowercase for word in _SECRET_ASSIGNMENTS):
        return False
    return any(_is_clear_text_secret(match[1] or match[2]) for match in _PASSWORD_IN_TEXT.finditer(text))


@rule("S021", "warning")
def value_encrypted_with_des(document: Document) -> Iterator[Problem]:
    """A value ENC(…) is encrypted with DES.

    Why: jasypt's default, PBEWithMD5AndDES, derives the key from the encryption password with only 1,000 rounds of MD5,
        and DES keys have only 56 bits. An attacker who has the file can therefore try very many encryption passwords
        per second.
    Fix: encrypt the value again with `bin/activemq encrypt --algorithm PBEWITHHMACSHA256ANDAES_256 --input VALUE` and
        the encryption password in the environment variable ACTIVEMQ_ENCRYPTION_PASSWORD. Name this algorithm and a
        RandomIvGenerator in the EnvironmentStringPBEConfig of activemq.xml, and store the key separately from the
        value.
    Cannot see: the algorithm, which the value does not name. The rule reports values whose length is impossible for AES
        and possible for ciphers with blocks of 8 bytes; values of 32 to 39 characters are ambiguous and not reported.
    Source: jasypt 1.9.3 of ActiveMQ 5.18.3, whose command line was run with both algorithms

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)" password="ENC(Gv7I4xB0na81GA88XYoq/Q==)"/>

    Fires on 5.18.3, as credentials.properties::

        network.password=ENC(EqOPhz4eXZanJrm5ZoQ1KJKOgfGWopppgeUKXQmX2yEygbyVBdRA+g==)

    Silent on 5.18.3, as credentials.properties::

        network.password=ENC(jCE0B0XoN2B/Fjy64FbZ6GY8xUrhRD6yyKJq2VC+59zrBiGkpXnvCSR9Pc1c6xy7)
    """
    for node in document.nodes if document.has_attribute_value_containing(("ENC(",)) else ():
        for name, value in node.attributes.items():
            if _is_encrypted_with_des(value):
                owner = _owner_text(node)
                text = f"the {_local_name(name)} of {owner} is encrypted with DES, which attackers can break quickly"
                yield node.problem(text, name)
    for file in document.other_files:
        if file.endswith(".properties"):
            for entry in properties_lines(document, file):
                if _is_encrypted_with_des(entry.value):
                    yield entry.properties_line_problem(
                        f"the property {entry.name} is encrypted with DES, which attackers can break quickly"
                    )


def _is_encrypted_with_des(value: str) -> bool:
    """Return whether an ENC() value has a length that AES cannot produce: the blocks have 8 bytes, as with DES."""
    match = _ENCRYPTED_VALUE.fullmatch(value.strip())
    try:
        size = len(base64.b64decode(match[1], validate=True)) if match else 0
    except binascii.Error:
        return False
    return size >= _AES_BLOCK and size % 8 == 0 and (size % _AES_BLOCK != 0 or size < 3 * _AES_BLOCK)


def _property_problems(node: Element) -> Iterator[Problem]:
    """Yield problems of Spring's property, entry, prop and constructor-arg elements that are named as passwords."""
    property_name = node.get("name") or node.get("key")
    if not property_name.lower().endswith(_SECRET_SUFFIXES):
        return
    child = node.first_child("value")
    for element, attribute in ((node, "value"), (node, ""), (child, "")):
        if element is not None and _is_clear_text_secret(element.get(attribute) if attribute else element.leading_text):
            message = f"the {property_name} of {_owner_text(node.parent or node)} is in the file in clear text"
            yield element.problem(message, attribute, fix=_placeholder_fix(property_name, node.parent or node))


def _placeholder_fix(name: str, owner: Element) -> str:
    """Return the fix for a password in clear text, with a placeholder that matches its name and its owner."""
    lowercase = name.lower()
    if "keystore" in lowercase or "truststore" in lowercase:
        label = "truststore" if "truststore" in lowercase else "keystore"
    elif owner.name.endswith("etworkConnector"):
        label = "network"
    else:
        bean = owner.parent if owner.name in _NAMED_VALUE_ELEMENTS and owner.parent is not None else owner
        name = bean.get("username") or bean.get("id") or bean.name
        label = re.sub(r"[^\w.-]", "", name) or bean.name  # the name may be a placeholder itself
    return (
        f"write a placeholder such as ${{{label}.password}} and define the value in a properties file that only the "
        "broker can read (mode 0640), loaded by a PropertyPlaceholderConfigurer"
    )


def _owner_text(node: Element) -> str:
    """Return how messages name an element: a link by its name, the link to the master, or the element."""
    if node.name == "masterConnector":
        return "the link to the master"
    if node.name in ("networkConnector", "multicastNetworkConnector", "ldapNetworkConnector"):
        return f"link {node.get('name')}"
    name = node.get("username") or node.get("name") or node.get("id")
    return f"<{node.name}> {name}".rstrip()


@rule("S014", "warning", scope="fleet")
def password_in_java_options(view: FleetView) -> Iterator[Problem]:
    """activemq_java_options contains a password.

    Why: every account of the host can read the Java options in the broker's command line (ps), and monitoring often
        collects lists of processes.
    Fix: write the key store's password as ${…} in <sslContext>, and define its value in a properties file of
        activemq_extra_files. If other software, such as a Java agent, reads the option, use that software's option for
        a password file. The name of such an option often ends in .file.
    Source: /proc/PID/cmdline: every account of the host may read it

    Fires on 5.18.3::

        all:
          activemq_java_options: [-Djavax.net.ssl.keyStorePassword=rosebud]
        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:

    Silent on 5.18.3::

        all:
          activemq_java_options: [-Dcom.sun.management.jmxremote.password.file=/etc/activemq/jmx.password]
        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:
    """
    for broker in view.brokers:
        for option in broker.settings.java_options:
            match = _SECRET_OPTION.fullmatch(option)
            if match and _is_clear_text_secret(match[2]):
                message = f"activemq_java_options contains a password: -D{match[1]}=…"
                is_store_password = match[1].lower().endswith(tuple(_STORE_PASSWORD_NAMES))
                yield Problem(message, fix=_STORE_REMEDY if is_store_password else _OPTION_REMEDY, host=broker.host)
            elif not match and _contains_clear_text_password(option):
                message = f"activemq_java_options contains a password in the option {option.partition('=')[0]}"
                yield Problem(message, fix=_OPTION_REMEDY, host=broker.host)


@rule("S019", "warning")
def guessable_store_password(document: Document) -> Iterator[Problem]:
    """A key or trust store has an easily guessed password.

    Why: "password" is the password of the broker.ks that every release ships, whose private key is public; changeit is
        Java's default. Anyone who obtains a copy of the key store can therefore read the broker's private key.
    Fix: create a new key store with a new password. Write keyStorePassword="${keystore.password}", and define
        keystore.password in a properties file that only the broker can read.
    Cannot see: passwords that a placeholder or an encrypted value hides. `check -i` also checks the passwords in
        activemq_tls and activemq_metrics_tls, except those that Ansible Vault cannot decrypt.
    Source: broker.ks of the release tags (password); keytool (changeit)

    Fires on 5.18.3::

        <broker>
          <sslContext><sslContext keyStore="file:broker.ks" keyStorePassword="password"/></sslContext>
        </broker>

    Silent on 5.18.3::

        <broker>
          <sslContext><sslContext keyStore="file:broker.ks" keyStorePassword="${keystore.password}"/></sslContext>
        </broker>
    """
    names = [name for name in document.attribute_names_in_file if name.lower() in _STORE_PASSWORD_NAMES]
    for node in document.elements_with_attribute(*names):
        for name in names:
            if is_guessable_credential("", node.get(name)):
                yield node.problem(f"the {name} of <{node.name}> is an easily guessed password", name)
