"""The local AWS, with what ministack's IAM leaves out of AWS's: the partitions that a
request to DynamoDB writes or reads (dynamodb:LeadingKeys), grants of KMS and the conditions of
making them, encryption contexts, the log stream that a request names, and the actions on
one alias of a function, which it takes for those on all. CloudFormation's KmsKeyArn of a
function is here too, and SAM gets the Release."""
import json
import re

from ministack.app import main
from ministack.core import iam_actions, iam_evaluator
from ministack.services import lambda_svc
from ministack.services.cloudformation import changesets, engine, handlers, provisioners
from samtranslator.translator import transform as sam


def read(body):
    try:
        return json.loads(body or b"{}")
    except ValueError:
        return {}


def partitions(request):
    """The partitions of a request, or of one part of a transaction."""
    from ministack.services import dynamodb

    def of(table, *items):
        pk = dynamodb._tables.get(table, {}).get("pk_name")
        return [next(iter(item[pk].values())) for item in items if item and pk in item]

    found = of(request.get("TableName"), request.get("Item"), request.get("Key"))
    if asked := re.match(r"pk = (:\w+)", request.get("KeyConditionExpression", "")):
        found += request["ExpressionAttributeValues"][asked[1]].values()
    for table, batch in (request.get("RequestItems") or {}).items():
        for part in batch if isinstance(batch, list) else []:  # a write; a read is no list
            found += of(table, (part.get("PutRequest") or {}).get("Item"), (part.get("DeleteRequest") or {}).get("Key"))
    return found


def written(request):
    """The conditions of a request, or of one part of a transaction, that ministack lacks."""
    keys = partitions(request)
    return {"dynamodb:LeadingKeys": keys} if keys else {}


class Part(str):
    """The action of a part of a transaction, which knows its conditions."""


def transaction_checks(action, body, region, account, before=iam_actions.dynamodb_transaction_checks):
    checks = []
    for item in read(body).get("TransactItems") or []:
        for name, arn in before(action, json.dumps({"TransactItems": [item]}), region, account):
            part = Part(name)
            part.context = {name: value for request in item.values() for name, value in written(request).items()}
            checks.append((part, arn))
    return checks


def service_context(body, before=iam_actions.dynamodb_service_context):
    return {**before(body), **written(read(body))}


def request_context(service, action, body, params, before=iam_actions.request_tag_context):
    context = before(service, action, body, params)
    request = read(body) if service == "kms" else {}
    for name, value in (request.get("EncryptionContext") or {}).items():
        context["kms:EncryptionContext:" + name] = value
    if action == "kms:CreateGrant":
        context["kms:GranteePrincipal"], context["kms:GrantOperations"] = request.get("GranteePrincipal"), request.get("Operations")
    return context


def resource(service, method, path, headers, body, *rest, before=iam_actions.extract_resource_arn):
    arn = before(service, method, path, headers, body, *rest)
    if service == "logs" and ":log-group:" in arn:
        arn += ":log-stream:" + read(body).get("logStreamName", "")
    return arn


def lambda_action(method, path, before=iam_actions._lambda_action):
    alias = re.search(r"/functions/[^/]+/aliases/[^/]+$", path)
    return {"GET": "GetAlias", "PUT": "UpdateAlias", "DELETE": "DeleteAlias"}[method] if alias else before(method, path)


def granted(principal, action, key):
    """Whether a grant lets an assumed role do something with a key."""
    from ministack.services import kms

    role = "/" + iam_evaluator._role_name_from_assumed_arn(principal)
    return any(g["KeyId"] == key and g["GranteePrincipal"].endswith(":role" + role) and action in g["Operations"]
               for g in kms._grants.values())


def enforce(access_key, action, service, region, resource_arn="*", service_context=None, before=iam_evaluator.enforce):
    if isinstance(action, Part):
        service_context = {**(service_context or {}), **action.context}
    if action == "sqs:SendMessageBatch":  # AWS has no such right
        action = "sqs:SendMessage"
    denied = before(access_key, action, service, region, resource_arn=resource_arn, service_context=service_context)
    if getattr(denied, "decision", "") == "ImplicitDeny" and service == "kms":
        if granted(denied.principal_arn, action.split(":")[1], resource_arn):
            return None
    return denied


def lambda_create(logical_id, props, stack_name, before=provisioners._lambda_create):
    name, attributes = before(logical_id, props, stack_name)
    lambda_svc._functions[name]["config"]["KMSKeyArn"] = props.get("KmsKeyArn", "")
    return name, attributes


def apply_transforms(template, given=None, previous=None, before=engine._apply_transforms):
    """SAM puts the value of Release into the names of versions. The other parameters would make
    it add CodeDeploy's resources, which ministack does not know."""
    release, serverless = engine._transform_parameters(template, given, previous).get("Release", ""), sam.transform
    sam.transform = lambda fragment, _, policies: serverless(fragment, {"Release": release}, policies)
    try:
        return before(template, given, previous)
    finally:
        sam.transform = serverless


changesets._apply_transforms = handlers._apply_transforms = apply_transforms
iam_actions.dynamodb_transaction_checks = transaction_checks
iam_actions.dynamodb_service_context = service_context
iam_actions.request_tag_context = request_context
iam_actions.extract_resource_arn = resource
iam_actions._lambda_action = lambda_action
iam_evaluator.enforce = enforce
provisioners._lambda_create = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"]["create"] = lambda_create

if __name__ == "__main__":
    main()
