elasticdl train --image_name=a:1 --job_name=ps --job_command="python a.py" --distribution_strategy=ParameterServerStrategy
