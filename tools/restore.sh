# Bash functions of docs/disasters.md. Source this file at the root of the repository with REMIT_STACK and the region set.
: "${REMIT_STACK:?set it to the name of your stack, and source this file again}"
PATH=$PATH:$PWD/.cache/bin
command -v remit >/dev/null || echo "build it first: go build -o .cache/bin/remit ./cmd/remit" >&2

# output NAME prints an output of the stack.
output() { aws cloudformation describe-stacks --stack-name "$REMIT_STACK" --query "Stacks[0].Outputs[?OutputKey=='$1'].OutputValue" --output text; }

# use PARAMETER VALUE changes one parameter of the stack, with the time as its Release.
use() {
  local bucket url
  : "${2:?nothing was restored}"
  bucket=$(aws cloudformation describe-stacks --stack-name aws-sam-cli-managed-default --output text \
    --query "Stacks[0].Outputs[?OutputKey=='SourceBucket'].OutputValue") && url="$bucket/$REMIT_STACK.template" &&
    # The previous template is the transformed one, in which a new Release names no new version.
    aws cloudformation get-template --stack-name "$REMIT_STACK" --template-stage Original --query TemplateBody --output text |
    aws s3 cp - "s3://$url" >&2 &&
    aws cloudformation update-stack --stack-name "$REMIT_STACK" --template-url "https://s3.amazonaws.com/$url" \
      --capabilities CAPABILITY_IAM CAPABILITY_AUTO_EXPAND \
      --parameters "ParameterKey=$1,ParameterValue=$2" "ParameterKey=Release,ParameterValue=$(date +%s)" $(aws cloudformation describe-stacks --stack-name "$REMIT_STACK" --output text \
        --query "Stacks[0].Parameters[?ParameterKey!='$1' && ParameterKey!='Release'].join('', ['ParameterKey=', ParameterKey, ',UsePreviousValue=true'])") &&
    aws cloudformation wait stack-update-complete --stack-name "$REMIT_STACK"
}

# restore KIND [TIME] makes a new table, $KIND, of the stack's table of ApiKeys, Payments or
# Webhooks: as it was at TIME, or from the copy that AWS kept when the table was deleted.
restore() {
  local table backup to
  unset "$1"; to="$REMIT_STACK-$1-$(date -u +%Y%m%d-%H%M%S)"
  table=$(output "$1TableName") && [ -n "$table" ] || { echo "restore: the stack $REMIT_STACK shows no table of $1" >&2 && return 1; }
  if [ -n "${2-}" ]; then
    aws dynamodb restore-table-to-point-in-time --source-table-name "$table" --target-table-name "$to" --restore-date-time "$2"
  else
    backup=$(aws dynamodb list-backups --backup-type SYSTEM --table-name "$table" --query 'BackupSummaries[-1].BackupArn' --output text) &&
      aws dynamodb restore-table-from-backup --backup-arn "$backup" --target-table-name "$to"
  fi && printf -v "$1" %s "$to"
}

# keep TABLE... waits for a restored table and sets again what a restore leaves out.
keep() {
  for table; do
    # The command waits for eight minutes, and a restore may take hours.
    until aws dynamodb wait table-exists --table-name "$table"; do aws dynamodb describe-table --table-name "$table" || return; done
    aws dynamodb update-continuous-backups --table-name "$table" --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true &&
      aws dynamodb update-time-to-live --table-name "$table" --time-to-live-specification Enabled=true,AttributeName=ttl &&
      aws dynamodb update-table --table-name "$table" --deletion-protection-enabled || return
  done >/dev/null
}

# allow_old_webhook_keys lets the functions of this stack decrypt the secrets of webhooks
# that earlier stacks of its name have encrypted.
allow_old_webhook_keys() {
  local key about function role
  for key in $(aws kms list-keys --query "Keys[].KeyArn" --output text); do
    about=$(aws kms describe-key --key-id "$key" --query KeyMetadata.Description --output text)
    if [ "$about" != "Remit $REMIT_STACK: the secrets of webhooks" ] || [ "$key" = "$(output WebhookKeyArn)" ]; then continue; fi
    for function in DeliverWebhook TestWebhook; do
      role=$(aws cloudformation describe-stack-resource --stack-name "$REMIT_STACK" --logical-resource-id "${function}FunctionRole" \
        --query StackResourceDetail.PhysicalResourceId --output text)
      aws kms create-grant --key-id "$key" --grantee-principal "$(aws iam get-role --role-name "$role" --query Role.Arn --output text)" \
        --operations Decrypt --constraints "EncryptionContextSubset={remit=webhook-secrets}" || return
    done
  done
}

# parameters prints those of the stage prod in samconfig.toml.
parameters() { sed -n '/^\[prod.deploy.parameters\]/,/^\[/s/^parameter_overrides = "\(.*\)"/\1/p' samconfig.toml; }

# rpc_secret prints the ARN of the stack's secret with the URLs of the nodes.
rpc_secret() { aws secretsmanager list-secrets --query "SecretList[?Description && starts_with(Description, 'Remit $REMIT_STACK: {\"8453\":')].ARN" --output text; }

# replicate_wallets REGION copies the keys of all wallets there.
replicate_wallets() {
  local wallet
  for wallet in $(aws secretsmanager list-secrets --query "SecretList[?starts_with(Name, '$REMIT_STACK/wallets/')].Name" --output text); do
    aws secretsmanager replicate-secret-to-regions --secret-id "$wallet" --add-replica-regions "Region=$1" || return
  done
}

# detach_replicas makes the replicas in this region secrets of their own.
detach_replicas() {
  local secret
  for secret in $(aws secretsmanager list-secrets --query "SecretList[?Description && starts_with(Description, 'Remit $REMIT_STACK: ')].ARN" --output text); do
    aws secretsmanager stop-replication-to-replica --secret-id "$secret" || return
  done
}

# export_tables BUCKET exports the three tables.
export_tables() {
  local kind
  for kind in ApiKeys Payments Webhooks; do
    aws dynamodb export-table-to-point-in-time --s3-bucket "$1" --s3-prefix "$kind" --export-format DYNAMODB_JSON \
      --table-arn "$(aws dynamodb describe-table --table-name "$(output "${kind}TableName")" --query Table.TableArn --output text)" || return
  done
}

# import_table BUCKET KIND NAME DEFINITION makes a table of the newest export of its kind.
import_table() {
  local newest
  # The query is applied to each page of a thousand objects.
  newest=$(aws s3api list-objects-v2 --bucket "$1" --prefix "$2/" --output text \
    --query "Contents[?ends_with(Key, 'manifest-summary.json')].[LastModified, Key]" | grep manifest-summary | sort | tail -n 1 | cut -f 2)
  aws dynamodb import-table --input-format DYNAMODB_JSON --input-compression-type GZIP \
    --s3-bucket-source "S3Bucket=$1,S3KeyPrefix=${newest%manifest-summary.json}data/" \
    --table-creation-parameters "{\"TableName\":\"$3\",\"BillingMode\":\"PAY_PER_REQUEST\",$4}"
}

# import_tables BUCKET SUFFIX makes the three tables of the newest exports, and keeps them.
import_tables() {
  import_table "$1" ApiKeys "$REMIT_STACK-ApiKeys-$2" '"AttributeDefinitions":[{"AttributeName":"key_hash","AttributeType":"S"},{"AttributeName":"merchant_id","AttributeType":"S"},{"AttributeName":"created_at","AttributeType":"S"}],
    "KeySchema":[{"AttributeName":"key_hash","KeyType":"HASH"}],
    "GlobalSecondaryIndexes":[{"IndexName":"merchant","KeySchema":[{"AttributeName":"merchant_id","KeyType":"HASH"},{"AttributeName":"created_at","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}]' &&
  import_table "$1" Payments "$REMIT_STACK-Payments-$2" '"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"},{"AttributeName":"list_pk","AttributeType":"S"},{"AttributeName":"list_sk","AttributeType":"S"}],
    "KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
    "GlobalSecondaryIndexes":[{"IndexName":"merchant","KeySchema":[{"AttributeName":"list_pk","KeyType":"HASH"},{"AttributeName":"list_sk","KeyType":"RANGE"}],"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["state"]}}]' &&
  import_table "$1" Webhooks "$REMIT_STACK-Webhooks-$2" '"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"},{"AttributeName":"shard","AttributeType":"S"},{"AttributeName":"next_attempt_at","AttributeType":"S"}],
    "KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
    "GlobalSecondaryIndexes":[{"IndexName":"due","KeySchema":[{"AttributeName":"shard","KeyType":"HASH"},{"AttributeName":"next_attempt_at","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}]' &&
  keep "$REMIT_STACK-ApiKeys-$2" "$REMIT_STACK-Payments-$2" "$REMIT_STACK-Webhooks-$2"
}
